// The REST API, as /openapi.json describes it.

SwaggerUIBundle({ url: "openapi.json", dom_id: "#docs", deepLinking: true });
