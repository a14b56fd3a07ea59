"""A real browser for tests of pages: Chromium, headless, which tells its console and what it asks for."""

from __future__ import annotations

import json
import shutil
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

CHROMIUM, DRIVER = shutil.which("chromium") or shutil.which("chromium-browser"), shutil.which("chromedriver")
if CHROMIUM is None or DRIVER is None:
    pytest.skip("no chromium and chromedriver on this machine: reports are not looked at in a browser", allow_module_level=True)
webdriver = pytest.importorskip("selenium.webdriver", reason="no selenium on this machine: reports are not looked at in a browser")
By = pytest.importorskip("selenium.webdriver.common.by").By
Keys = webdriver.Keys

FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-dev-shm-usage"
)


class Browser:
    """One Chromium; `open` a page at a width, then look."""

    def __init__(self, home: Path):
        options = webdriver.ChromeOptions()
        options.binary_location = CHROMIUM
        for flag in FLAGS.split():
            options.add_argument(flag)
        options.add_argument(f"--user-data-dir={home / 'profile'}")
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.downloads = home / "downloads"
        self.driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
        self.driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(self.downloads)})

    def open(self, page: Path, width: int = 1440, hash: str = "", dark: bool = False) -> None:
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        self.driver.get("about:blank")
        self.logs()
        self.driver.get(page.as_uri() + hash)
        # the driver may come back while the blank page is still there; what never gets ready is for the tests to say
        for _ in range(100):
            if self.run("document.documentElement.dataset.ready"):
                break
            time.sleep(0.1)

    def used(self) -> dict[int, float]:
        """Seconds of the processor that each of its processes has used, whatever else the machine does."""
        found = {}
        for process in psutil.Process(self.driver.service.process.pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                found[process.pid] = sum(process.cpu_times()[:2])
        return found

    def logs(self) -> tuple[list[str], list[str]]:
        """Console messages and addresses asked for since the last call."""
        console = [entry["message"] for entry in self.driver.get_log("browser")]
        events = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        asked = [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]
        return console, asked

    def run(self, script: str):
        return self.driver.execute_script("return " + script)

    def all(self, css: str) -> list:
        return self.driver.find_elements(By.CSS_SELECTOR, css)

    def until(self, seen, seconds: float = 10.0):
        """What `seen` gives, as soon as that is anything, or when the time is up."""
        limit = time.monotonic() + seconds
        while not (found := seen()) and time.monotonic() < limit:
            time.sleep(0.05)
        return found

    def one(self, css: str):
        return self.driver.find_element(By.CSS_SELECTOR, css)

    def figure(self, title: str):
        return next(f for f in self.all("figure") if f.find_element(By.TAG_NAME, "h3").text.startswith(title))

    def hash(self) -> str:
        return self.run("decodeURIComponent(location.hash)")
