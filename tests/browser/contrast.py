"""Contrast of the texts on a page, measured in the browser."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["faint_texts"]

# Texts with their contrast against the nearest grounds below them, those under 4.5:1 (3:1 where large).
_AUDIT = """() => {
    // Icons are no texts; numbers of a slider stand above its handle and not on it.
    const SKIP = 'canvas, [disabled], [aria-disabled="true"], [data-testid="stIconMaterial"], '
        + '[data-testid="stSlider"]';
    const parse = text => {
        const found = text.match(/rgba?\\(([^)]+)\\)/);
        if (!found) return null;
        const [r, g, b, a] = found[1].split(/[ ,/]+/).map(Number);
        return [r, g, b, a === undefined ? 1 : a];
    };
    const over = (top, low) => [0, 1, 2].map(i => top[i] * top[3] + low[i] * (1 - top[3])).concat(1);
    const light = c => {
        const [r, g, b] = c.slice(0, 3)
            .map(v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const ratio = (a, b) => {
        const [high, low] = [light(a), light(b)].sort((x, y) => y - x);
        return (high + 0.05) / (low + 0.05);
    };
    const ground = node => {
        const layers = [];
        for (let at = node; at; at = at.parentElement) {
            const colour = parse(getComputedStyle(at).backgroundColor);
            if (colour && colour[3] > 0) { layers.push(colour); if (colour[3] === 1) break; }
        }
        const dark = matchMedia('(prefers-color-scheme: dark)').matches;
        const page = dark ? [19, 22, 27, 1] : [255, 255, 255, 1];
        return layers.reverse().reduce((low, top) => over(top, low), page);
    };
    const bad = {};
    for (const node of document.querySelectorAll('[data-testid="stApp"] *')) {
        const own = [...node.childNodes].some(one => one.nodeType === 3 && one.textContent.trim());
        const box = node.getBoundingClientRect();
        if (!own || !box.width || node.closest(SKIP)) continue;
        const style = getComputedStyle(node);
        if (style.visibility === 'hidden') continue;
        const svg = node instanceof SVGElement;
        let colour = parse(svg ? style.fill : style.color);
        if (!colour) continue;
        let faded = 1;
        for (let at = node; at; at = at.parentElement) faded *= Number(getComputedStyle(at).opacity);
        if (faded < 0.05) continue;
        colour = [colour[0], colour[1], colour[2], colour[3] * faded];
        const low = ground(svg ? node.closest('div') : node);
        const size = parseFloat(style.fontSize);
        const large = size >= 24 || (size >= 18.6 && style.fontWeight >= 700);
        const got = ratio(over(colour, low), low);
        if (got < (large ? 3 : 4.5)) {
            const where = node.closest('[data-testid]')?.getAttribute('data-testid');
            bad[`${where} ${node.tagName}.${String(node.className.baseVal ?? node.className).slice(0, 30)}`] =
                `${got.toFixed(2)} ${style.color} ${node.textContent.trim().slice(0, 30)}`;
        }
    }
    return bad;
}"""


def faint_texts(tab: Any, links: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Texts of too little contrast by the name of the place; in one tab, which loads the scripts once."""
    faint = {}
    for name, link in links.items():
        tab.open(link)
        faint[name] = tab.page.evaluate(_AUDIT)
    return faint
