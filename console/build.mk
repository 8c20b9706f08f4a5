# The console: its files, and the libraries beside them, in build/console. The libraries come from the npm registry, by hash.
# Preact, its hooks and htm are one file of the package htm.
CONSOLE := $(BUILD)/console
CONSOLE_SRC := $(wildcard console/*.html console/*.css console/*.svg console/*.js console/pages/*.js)
NPM := $(BUILD)/npm

BINARIES += $(CONSOLE)/.made

.PHONY: test-console

$(CONSOLE)/.made: $(CONSOLE_SRC) $(CONSOLE)/vendor/.made
	@mkdir -p $(CONSOLE)/pages
	@cp console/*.html console/*.css console/*.svg console/*.js $(CONSOLE)/; cp console/pages/*.js $(CONSOLE)/pages/
	@touch $@

$(CONSOLE)/vendor/.made: console/vendor.sha512 console/fetch
	@echo "libraries of the console"
	@console/fetch console/vendor.sha512 $(NPM)
	@mkdir -p $(@D)
	@cp $(NPM)/htm/preact/standalone.module.js $(@D)/preact.js
	@cp $(NPM)/signals-core/dist/signals-core.mjs $(@D)/signals-core.js
	@cp $(NPM)/uplot/dist/uPlot.esm.js $(@D)/uPlot.js; cp $(NPM)/uplot/dist/uPlot.min.css $(@D)/
	@cp $(NPM)/swagger-ui-dist/swagger-ui-bundle.js $(NPM)/swagger-ui-dist/swagger-ui.css $(@D)/; cp $(NPM)/swagger-ui-dist/NOTICE $(@D)/NOTICE.swagger-ui-dist
	@for name in htm signals-core uplot swagger-ui-dist; do cp $(NPM)/$$name/LICENSE $(@D)/LICENSE.$$name; done
	@sed -i '/^\/\/# sourceMappingURL/d' $(@D)/*.js
	@touch $@

$(BUILD)/axe.min.js: console/axe.sha512
	@console/fetch $< $(NPM)
	@cp $(NPM)/axe-core/axe.min.js $@

test-console: build $(BUILD)/axe.min.js ## the console in Chromium against a real lab: PICTURES=docs/pictures
	@command -v chromium >/dev/null || { echo "datacast: chromium is missing; run as root: apt-get install chromium" >&2; exit 1; }
	@$(PY) -m pip install -q --disable-pip-version-check 'playwright>=1.40' $(if $(PICTURES),'pillow>=10')
	@DATACAST_CONSOLE_TEST=1 PICTURES=$(PICTURES) $(PY) -m pytest -q tests/console
