"""Tests that drive a real browser. A package, so that its conftest does not hide the one of all tests."""
