"""The controller: the REST API through which groups are started."""
