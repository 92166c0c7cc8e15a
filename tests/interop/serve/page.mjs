// Drives the page of `patchbay serve` in Chromium, by keyboard alone. page.py starts it.
//
// The one argument is a JSON object: `modules` (the folder of the packages), `browser` (its program), `url` and `token` of the server,
// `link` of `serve --open`, and `made`, the file that a tool call of the test writes. Prints the question that was answered, as JSON.
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const given = JSON.parse(process.argv[2]);
const installed = createRequire(join(given.modules, "any.js"));
const { chromium } = (await import(pathToFileURL(installed.resolve("playwright-core")))).default;
const WRITE = 'call files__write {"path": "made.txt", "text": "one\\ntwo"}';
const HOSTILE = [
  "say Text <script>alert(1)</script> <img src=x onerror=alert(2)> [a](javascript:alert(3)) ![b](data:image/png;base64,AAAA)",
  `**bold** \`${"x".repeat(200)}\` https://example.org/${"y".repeat(200)}`,
].join(" ");
const SECONDS = 30_000;

// Root needs `--no-sandbox`.
const browser = await chromium.launch({
  executablePath: given.browser,
  args: process.getuid() === 0 ? ["--no-sandbox"] : [],
});
const context = await browser.newContext({ viewport: { width: 360, height: 740 }, colorScheme: "light" });
const page = await context.newPage();
page.setDefaultTimeout(SECONDS);
const faults = [];
page.on("dialog", (dialog) => (faults.push(`a dialog: ${dialog.message()}`), dialog.dismiss()));
page.on("pageerror", (error) => faults.push(`an error in the page: ${error.message}`));
page.on("console", (message) => message.type() === "error" && faults.push(`in the console: ${message.text()}`));
page.on("request", (request) => request.url().startsWith(given.url) || faults.push(`a request to ${request.url()}`));

/** Runs in the browser: returns the contrasts that are too low, and whether anything is wider than the window. */
function audit() {
  const parsed = (color) => {
    const [red, green, blue, alpha = 1] = color.match(/[\d.]+/g).map(Number);
    return { rgb: [red, green, blue], alpha };
  };
  const over = (top, under) => top.rgb.map((channel, at) => channel * top.alpha + under[at] * (1 - top.alpha));
  const luminance = (rgb) => {
    const [red, green, blue] = rgb.map((channel) => {
      const part = channel / 255;
      return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const behind = (element) => {
    if (!element) return [255, 255, 255];
    const { backgroundColor } = getComputedStyle(element);
    return over(parsed(backgroundColor), behind(element.parentElement));
  };
  const opacity = (element) => (element ? Number(getComputedStyle(element).opacity) * opacity(element.parentElement) : 1);
  const contrast = (color, element, around = element) => {
    const under = behind(around);
    const top = parsed(color);
    const shown = over({ ...top, alpha: top.alpha * opacity(element) }, under);
    const [low, high] = [luminance(shown), luminance(under)].sort((one, other) => one - other);
    return (high + 0.05) / (low + 0.05);
  };
  const low = [];
  const need = (least, found, what) => found < least && low.push(`${found.toFixed(2)} of ${least}: ${what}`);
  const named = (element) => `${element.tagName.toLowerCase()}#${element.id}.${element.className} ${element.textContent.slice(0, 40)}`;
  // WCAG leaves out controls that cannot be used.
  const isShown = (element) =>
    element.checkVisibility({ visibilityProperty: true }) && !element.closest(":disabled") && element.getBoundingClientRect().right > 0;
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let checked = 0;
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    if (!texts.currentNode.data.trim() || !isShown(element)) continue;
    checked += 1;
    need(4.5, contrast(getComputedStyle(element).color, element), named(element));
  }
  for (const field of document.querySelectorAll("button, select, textarea, input")) {
    if (!isShown(field)) continue;
    need(3, contrast(getComputedStyle(field).borderTopColor, field, field.parentElement), `the border of ${named(field)}`);
    if (field.placeholder) need(4.5, contrast(getComputedStyle(field, "::placeholder").color, field), `the placeholder of ${named(field)}`);
  }
  const focused = document.activeElement;
  if (focused !== document.body) {
    const { outlineStyle, outlineWidth, outlineColor } = getComputedStyle(focused);
    const { left, right, top, bottom } = focused.getBoundingClientRect();
    const at = document.elementFromPoint((Math.max(left, 0) + Math.min(right, innerWidth)) / 2, (top + bottom) / 2);
    if (outlineStyle === "none" || parseFloat(outlineWidth) < 2) low.push(`no outline around the focused ${named(focused)}`);
    else need(3, contrast(outlineColor, focused, focused.parentElement), `the outline of the focused ${named(focused)}`);
    if (!focused.contains(at)) low.push(`something covers the focused ${named(focused)}, or it is not in the window`);
  }
  const { scrollWidth } = document.documentElement;
  return { low, checked, wider: scrollWidth > innerWidth ? `${scrollWidth} of ${innerWidth} pixels` : "" };
}

/** Checks what is shown now, dark and light. */
async function look(what) {
  for (const colorScheme of ["dark", "light"]) {
    await page.emulateMedia({ colorScheme });
    const { low, checked, wider } = await page.evaluate(audit);
    assert.deepEqual([low, wider], [[], ""], `${what}, ${colorScheme}`);
    assert.ok(checked > 1, `${what}: ${checked} texts`);
  }
}

/** Presses Tab until an element has the focus. All on the way have to show that they have it. */
async function tabTo(selector) {
  for (let presses = 0; presses < 60; presses++) {
    await page.keyboard.press("Tab");
    const { low } = await page.evaluate(audit);
    assert.deepEqual(low, [], `on the way to ${selector}`);
    if (await page.evaluate((selector) => document.activeElement.matches(selector), selector)) return;
  }
  assert.fail(`the keyboard does not reach ${selector}`);
}

async function type(text) {
  if (!(await page.evaluate(() => document.activeElement.id === "line"))) await tabTo("#line");
  await page.keyboard.type(text);
  await page.keyboard.press("Enter");
}

async function v1(path) {
  const response = await fetch(`${given.url}/v1/${path}`, { headers: { authorization: `Bearer ${given.token}` } });
  assert.equal(response.status, 200, path);
  return response.json();
}

// The link works, the code is gone from the address, and it works once.
await page.goto(given.link);
await page.waitForURL(`${given.url}/`);
await page.getByRole("heading", { name: "Sessions" }).waitFor();
await look("no sessions");
const other = await (await browser.newContext()).newPage();
await other.goto(given.link);
await other.getByRole("status").filter({ hasText: "This link has already been used" }).waitFor();
assert.ok(!other.url().includes("#"), other.url());
await other.close();

await tabTo("#new button");
await page.keyboard.press("Enter");
await page.waitForURL(/\/sessions\//);
const session = page.url().split("/").at(-1);
await page.getByRole("button", { name: "Stop" }).waitFor();
await look("an empty session");

// An answer as it streams.
const words = Array.from({ length: 40 }, (_, at) => `word${at}`).join(" ");
await type(`say **Streamed** ${words}`);
await page.locator("#live").filter({ hasText: "word3" }).waitFor();
assert.ok(!(await page.locator("#live").textContent()).includes("word39"), "the text came at once");
await look("a streaming answer");
await page.getByRole("log").locator("strong", { hasText: "Streamed" }).waitFor();
await page.locator("#live").waitFor({ state: "hidden" });
await page.locator("main[aria-busy=false]").waitFor();

// A long answer is stopped.
await type("repeat 3000 word");
await page.locator("#live").filter({ hasText: "word word word" }).waitFor();
await tabTo("#stop");
await page.keyboard.press("Enter");
await page.locator("#stop:disabled").waitFor();
await page.waitForFunction(() => document.activeElement.id === "line");

// A question: the same text as in `/v1`, answered.
await type(WRITE);
const form = page.locator("form.question");
await form.waitFor();
await look("a question");
const { questions } = await v1(`sessions/${session}/questions`);
assert.equal(questions.length, 1);
const [question] = questions;
const [facts, texts] = [form.locator(".fact"), (found) => found.allTextContents()];
const reason = question.reason ? [`the skill's reason: ${question.reason}`] : [];
assert.deepEqual(await texts(facts), [...question.facts, `for ${question.chain.join(" > ")}`, ...reason]);
assert.deepEqual(await texts(form.locator(".title")), [question.title]);
assert.deepEqual(await texts(form.locator("h2")), [question.topic]);
assert.deepEqual((await texts(form.locator(".diff"))).map((diff) => diff.trimEnd()), question.diff ? [question.diff.trimEnd()] : []);
assert.deepEqual(await texts(form.locator("button")), question.answers.map(({ answer, meaning }) => answer + meaning));
await page.getByRole("group", { name: question.topic }).waitFor();
await tabTo("button[data-answer=once]");
await page.keyboard.press("Enter");
await form.waitFor({ state: "detached" });
await page.getByRole("log").locator("details.result").waitFor();
assert.ok(existsSync(given.made));
await page.waitForFunction(() => document.activeElement.id === "line");
await page.locator("#stop:disabled").waitFor();

// The text of a model is inert, and nothing is wider than a phone.
await type(HOSTILE);
await page.getByRole("log").locator("article.answer strong", { hasText: "bold" }).waitFor();
assert.equal(await page.locator("main :is(script, img, iframe, object), main a[href^='javascript' i], main a[href^='data' i]").count(), 0);
await look("text of a model");
await type("/skills");
await page.getByRole("log").locator("article.command").waitFor();
await look("a command");

// A question that a client elsewhere answers leaves the page.
await type(WRITE);
await form.waitFor();
const { questions: [open] } = await v1(`sessions/${session}/questions`);
const answered = await fetch(`${given.url}/v1/sessions/${session}/questions/${open.id}`, {
  method: "POST",
  headers: { authorization: `Bearer ${given.token}`, "content-type": "application/json" },
  body: JSON.stringify({ answer: "no" }),
});
assert.equal(answered.status, 200);
await form.waitFor({ state: "detached" });

// What was shown as it came is the same after a reload, and in the lists.
const shown = () => page.locator("#rows > *").evaluateAll((rows) => rows.map((row) => row.textContent.trim()));
await page.locator("#stop:disabled").waitFor();
const before = await shown();
await page.reload();
assert.deepEqual(await shown(), before);
await tabTo("header a[href='/usage']");
await page.keyboard.press("Enter");
await page.getByRole("heading", { name: "Usage" }).waitFor();
await look("usage");
await tabTo("header a[href='/']");
await page.keyboard.press("Enter");
await page.getByRole("link", { name: "Streamed" }).waitFor();
await look("sessions");
assert.deepEqual(faults, []);
await browser.close();
console.log(JSON.stringify(question));
