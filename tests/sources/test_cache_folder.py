"""Downloads are kept where the user or the system says."""

import sys

from elmore.sources.cache_folder import cache_folder


def test_the_cache_lies_where_the_user_or_the_system_says(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("ELMORE_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "relative/is/ignored")
    assert cache_folder() == tmp_path / ".cache" / "elmore"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "elmore"
    monkeypatch.setenv("ELMORE_CACHE", "~/mine")
    assert cache_folder() == tmp_path / "mine"
