"""A Chromium without a window, and pages to open in it."""

import json
import shutil

import pytest

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


class Browser:
    """Opens pages, and knows what they complained about and what they asked the network for."""

    def __init__(self, driver, folder):
        self.driver = driver
        self.folder = folder

    def open(self, page, *, width=1280, dark=False, touch=False):
        """Show a page given as text, from a file; what earlier pages did is forgotten."""
        path = self.folder / "report.html"
        path.write_bytes(page.encode("utf-8"))
        self.visit(path.as_uri(), width=width, dark=dark, touch=touch)

    def visit(self, address, *, width=1280, dark=False, touch=False):
        """Show the page at an address; what earlier pages did is forgotten."""
        screen = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        self.driver.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": touch})
        self.complaints()
        self.requests()
        self.driver.get(address)
        self.driver.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")

    def complaints(self):
        """Return what stands in the console since the last time."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self):
        """Return the addresses asked for since the last time, but for those that hold their own data."""
        events = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        sent = [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]
        return [address for address in sent if not address.startswith("data:")]

    def run(self, script, *arguments):
        """Run a script in the page and return what it returns."""
        return self.driver.execute_script(script, *arguments)

    def texts(self, selector):
        """Return the texts of all elements that a selector finds, whole, as they are in the page."""
        return self.run("return [...document.querySelectorAll(arguments[0])].map((e) => e.textContent)", selector)

    def text(self, selector):
        """Return the text of the one element that a selector finds."""
        (text,) = self.texts(selector)
        return text

    def find(self, selector):
        """Return the first element that a selector finds."""
        return self.driver.find_element("css selector", selector)

    def type(self, text):
        """Put a text into the search box, as a user would."""
        box = self.find("#search")
        box.clear()
        box.send_keys(text)


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """Start Chromium with the installed driver; nothing is downloaded."""
    from selenium import webdriver  # noqa: PLC0415  (an extra; other tests are collected without it)

    binary = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    driver_path = shutil.which("chromedriver")
    assert binary, "no chromium on the PATH; `make test-browser` installs it on Debian"
    assert driver_path, "no chromedriver on the PATH; `make test-browser` installs it on Debian"
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver_path))
    yield Browser(driver, tmp_path_factory.mktemp("pages"))
    driver.quit()
