"""Barriers that keep people from using a page: found by axe-core, and by a few checks of our own.

axe-core is a common npm package for judging pages; `make components` fetches it. The checks here
cover what axe-core has no rule for, or cannot see in one look at the page: a visible focus, a page
that does not scroll sideways, one heading of the first level, ids that are unique and exist where
they are referred to, tables with headers.
"""

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rota.testing import npm

if TYPE_CHECKING:
    from playwright.sync_api import Page

HOME = npm.CACHE / "axe"
AXE = "axe-core@4.14.0"
PACKAGES = {
    AXE: "sha512-9WTZxEjsZ7b13TH8JPmbV2z8CHbl80/2hm3XPEG4JgNdQLK8"
    "1IBRXmSxHfMAOkSqQeRxT/0dwNDz2GOm3zzpcQ==",
}
TAGS = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")

_RUN = """
async ({ tags, only }) => {
  const which = only ? { type: "rule", values: only } : { type: "tag", values: tags };
  // Off by default, because it is young: a target is 24 pixels, or has as much room about it.
  const rules = only ? {} : { "target-size": { enabled: true } };
  const found = await axe.run(document, { runOnly: which, rules, resultTypes: ["violations"] });
  return found.violations.flatMap((rule) => rule.nodes.map((node) =>
    `${rule.id}: ${node.target.join(" ")}: ${node.failureSummary.replace(/\\s+/g, " ")}`));
}
"""

# Elements of a closed dialog or details have no boxes; they are checked when they are open.
_OWN = """
() => {
  const faults = [];
  const name = (one) => one.id ? `${one.localName}#${one.id}` : one.outerHTML.slice(0, 90);
  const headings = document.querySelectorAll("h1").length;
  if (headings !== 1) faults.push(`one-h1: there are ${headings}`);
  const root = document.documentElement;
  if (root.scrollWidth > root.clientWidth) {
    faults.push(`sideways: the page is ${root.scrollWidth} wide in ${root.clientWidth}`);
  }
  const ids = [...document.querySelectorAll("[id]")].map((one) => one.id);
  const again = new Set(ids.filter((id, n) => ids.indexOf(id) !== n));
  for (const id of again) faults.push(`unique-id: ${id}`);
  for (const kind of ["aria-labelledby", "aria-describedby", "aria-controls", "for", "list"]) {
    for (const one of document.querySelectorAll(`[${kind}]`)) {
      const lost = one.getAttribute(kind).split(/\\s+/).filter((id) => id && !ids.includes(id));
      if (lost.length) faults.push(`reference: ${name(one)} names ${lost}`);
    }
  }
  for (const one of document.querySelectorAll("table")) {
    if (!one.querySelector("th") && one.rows.length) faults.push(`table-headers: ${name(one)}`);
  }
  const controls = "a[href], button, input:not([type=hidden]), select, textarea, summary, "
    + "[tabindex='0']";
  for (const one of document.querySelectorAll(controls)) {
    const box = one.getBoundingClientRect();
    if (!box.width || !box.height || one.disabled || one.matches(":disabled")) continue;
    one.focus({ preventScroll: true, focusVisible: true });
    if (document.activeElement !== one) continue;
    const focused = getComputedStyle(one);
    const ring = parseFloat(focused.outlineWidth) >= 1 && focused.outlineStyle !== "none";
    if (!ring && focused.boxShadow === "none") faults.push(`focus-visible: ${name(one)}`);
    one.blur();
  }
  return faults;
}
"""


def find_axe() -> Path | None:
    return npm.find_file(HOME, PACKAGES, "axe-core/axe.min.js")


def install_command() -> tuple[str, ...]:
    return npm.install_command(HOME, PACKAGES)


@cache
def _axe() -> str:
    found = find_axe()
    if found is None:
        raise RuntimeError("axe-core is missing: run `make components`")
    return found.read_text()


def barriers(page: "Page", *rules: str) -> list[str]:
    """What axe-core finds, by all its rules or only by `rules`; and what our own checks find."""
    if not page.evaluate("() => 'axe' in window"):
        page.evaluate(_axe())  # not by a script element, which the page's policy would refuse
    chosen: dict[str, Any] = {"tags": list(TAGS), "only": list(rules) or None}
    return [*page.evaluate(_RUN, chosen), *page.evaluate(_OWN)]
