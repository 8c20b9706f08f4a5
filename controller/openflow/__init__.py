"""OpenFlow 1.3 switches (Open vSwitch): rules as data, and a thin os-ken shim that carries them."""
