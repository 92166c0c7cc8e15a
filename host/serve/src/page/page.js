// The page of `patchbay serve`. The server writes all HTML; this sends what the user does, and shows what comes.
const main = document.querySelector("main");
const status = document.querySelector("#status");
const say = (text) => { status.textContent = text; };

async function send(path, body) {
  try {
    const response = await fetch(path, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    });
    const reply = await response.json().catch(() => ({}));
    if (!response.ok) say(reply.error?.message ?? `The server answered ${response.status}.`);
    return response.ok ? reply : undefined;
  } catch {
    say("The server cannot be reached. Nothing was sent.");
  }
}

// The link of `patchbay serve --open`. What follows the # is never sent with a request for a page.
if (main.dataset.page === "open") {
  const code = location.hash.slice(1);
  history.replaceState(null, "", "/open");
  const opened = code && (await send("/open", { code }));
  if (opened) location.replace("/");
  else say("This link has already been used, or is older than 60 seconds. Run: patchbay serve --open");
}

document.querySelector("#new")?.addEventListener("submit", async (event) => {
  event.preventDefault();
  const session = await send("/v1/sessions", { workspace: document.querySelector("#workspace").value });
  if (session) location.assign(`/sessions/${session.id}`);
});

if (main.dataset.session) follow(main.dataset.session);

function follow(session) {
  const api = `/v1/sessions/${session}`;
  const rows = document.querySelector("#rows");
  const live = document.querySelector("#live");
  const questions = document.querySelector("#questions");
  const line = document.querySelector("#line");
  const form = document.querySelector("#send");
  const atEnd = () => innerHeight + scrollY >= document.body.scrollHeight - 80;
  const toEnd = (was) => { if (was) scrollTo(0, document.body.scrollHeight); };
  const clear = () => { live.replaceChildren(); live.hidden = true; };

  const piece = (text, kind) => {
    const was = atEnd();
    let block = live.lastElementChild;
    if (block?.className !== kind) {
      block = document.createElement("pre");
      block.className = kind;
      live.append(block);
    }
    block.append(text);
    live.hidden = false;
    toEnd(was);
  };
  // The page shows another agent now. A line that is not sent stays.
  const kept = `line-${session}`;
  const reload = () => {
    if (line) sessionStorage.setItem(kept, line.value);
    location.reload();
  };
  if (line) line.value = sessionStorage.getItem(kept) ?? "";
  sessionStorage.removeItem(kept);

  const { row, agent, view } = main.dataset;
  const events = new EventSource(`/sessions/${session}/events?after=${row}&agent=${agent}`);
  events.onopen = () => say("");
  events.onerror = () => say("The connection was lost. Reconnecting …");
  events.addEventListener("row", (event) => {
    const was = atEnd();
    const { id, html, ends } = JSON.parse(event.data);
    if (ends) clear();
    if (html && !document.getElementById(id)) rows.insertAdjacentHTML("beforeend", html);
    toEnd(was);
  });
  events.addEventListener("delta", (event) => {
    const { text, thinking } = JSON.parse(event.data);
    piece(text, thinking ? "thinking" : "text");
  });
  events.addEventListener("partial", (event) => {
    clear();
    const { text } = JSON.parse(event.data);
    if (text) piece(text, "text");
  });
  events.addEventListener("again", clear);
  events.addEventListener("questions", (event) => {
    const now = document.createElement("template");
    now.innerHTML = JSON.parse(event.data).html;
    const id = (question) => question.dataset.question;
    const has = (parent, question) => [...parent.children].some((other) => id(other) === id(question));
    // One that is still open keeps the focus.
    for (const old of [...questions.children]) if (!has(now.content, old)) old.remove();
    for (const open of [...now.content.children]) {
      if (has(questions, open)) continue;
      questions.append(open);
      open.scrollIntoView({ block: "nearest" });
    }
  });
  events.addEventListener("agents", async () => {
    const response = await fetch(location.href).catch(() => undefined);
    if (!response?.ok) return;
    const now = new DOMParser().parseFromString(await response.text(), "text/html").querySelector("#agents");
    if (now) document.querySelector("#agents").replaceWith(now);
  });
  events.addEventListener("notice", (event) => say(JSON.parse(event.data).text));
  events.addEventListener("state", (event) => {
    const now = JSON.parse(event.data);
    if (now.view !== view) return reload();
    document.querySelector("#stop").disabled = !now.running;
    live.setAttribute("aria-busy", now.running);
    if (!now.running) clear();
  });

  form?.addEventListener("submit", async (event) => {
    event.preventDefault();
    const text = line.value;
    if (!text.trim()) return;
    line.value = "";
    if (!(await send(`${api}/lines`, { text }))) line.value = text;
  });
  line?.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      form.requestSubmit();
    }
  });
  document.querySelector("#switch")?.addEventListener("click", async (event) => {
    const sent = await send(`${api}/lines?wait=10`, { text: event.target.dataset.line });
    if (sent) location.assign(`/sessions/${session}`);
  });
  document.querySelector("#stop").addEventListener("click", async () => {
    // The button is disabled then, and would keep the focus.
    if (await send(`${api}/stop`, {})) (line ?? main).focus();
  });
  questions.addEventListener("click", async (event) => {
    const button = event.target.closest("button[data-answer]");
    if (!button) return;
    const question = button.closest("form").dataset.question;
    if (await send(`${api}/questions/${question}`, { answer: button.dataset.answer })) (line ?? main).focus();
  });
}
