"""One browser for all tests of pages."""

import pytest


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    from browsing import Browser

    browser = Browser(tmp_path_factory.mktemp("chromium"))
    yield browser
    browser.driver.quit()
