// What every page has: times that go on, the live feed, buttons that act, keys.
import "./act.js";
import "./keys.js";
import "./parts.js";
import "./times.js";

document.documentElement.classList.add("js");
