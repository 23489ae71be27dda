"""What the answers of web servers mean."""

import io
from http.client import HTTPMessage
from urllib.request import Request

import pytest

from elmore.errors import NotFound
from elmore.sources.http_requests import CacheValidator, _WebRedirects


def redirected(here: str, there: str) -> Request | None:
    return _WebRedirects().redirect_request(Request(here), io.BytesIO(), 302, "Found", HTTPMessage(), there)


def test_redirects_never_lead_from_https_to_http():
    for here, there in [("http://a.org/x", "https://b.org/x"), ("https://a.org/x", "https://b.org/x")]:
        followed = redirected(here, there)
        assert followed is not None
        assert followed.full_url == there
    with pytest.raises(NotFound, match=r"redirects to http://b.org/x; only redirects to https"):
        redirected("https://a.org/x", "http://b.org/x")


def test_condition_ignores_weak_etag():
    date = "Fri, 16 Mar 2018 10:00:00 GMT"
    assert CacheValidator('"abc"', date).condition == '"abc"'
    assert CacheValidator('W/"abc"', date).condition == date
    assert CacheValidator('W/"abc"').condition == ""
