"use strict";
const at = (id) => document.getElementById(id);
const task = () => document.querySelector("[name=task]:checked").value;
const pictures = {}; // by the input that they were chosen with, from files or from the camera
const FIELDS = {
  identify: { photograph: "first" }, verify: { left: "first", right: "second" }, claim: { photograph: "first", person: "person" },
  enrol: { photograph: "first", person: "person", consent: "consent", expires: "expires", keep_image: "keep_image" },
};
const WORDS = {
  same: "Same person", unsure: "Unsure", different: "Different people", nobody: "Nobody who is enrolled",
  enrolled: "Enrolled", known: "Enrolled before", refused: "Not enrolled",
};

function part(kind, text, className = "") {
  return Object.assign(document.createElement(kind), { textContent: text, className });
}

// A rate, such as 1 in 100 or 95 %, stays on one line.
const whole = (text) => text.replace(/1 in (?=\d)/g, "1\u00a0in\u00a0").replace(/(\d) %/g, "$1\u00a0%");

function choose() {
  for (const one of document.querySelectorAll("[data-for]")) one.hidden = !one.dataset.for.split(" ").includes(task());
  at("person").required = ["claim", "enrol"].includes(task());
  at("ask").textContent = task() === "enrol" ? "Enrol" : "Ask";
}

function picture(id, file) {
  pictures[id] = file;
  at(id + "-shown").src = URL.createObjectURL(file);
  at(id + "-shown").hidden = false;
}

async function camera(id) {
  const video = at("video");
  try {
    video.srcObject = await navigator.mediaDevices.getUserMedia({ video: true });
  } catch {
    return show({ verdict: "The camera cannot be used", reasons: ["Allow it, or choose a file. From another machine browsers ask for https."] });
  }
  await video.play();
  at("take").onclick = () => {
    const canvas = Object.assign(document.createElement("canvas"), { width: video.videoWidth, height: video.videoHeight });
    canvas.getContext("2d").drawImage(video, 0, 0);
    canvas.toBlob((blob) => picture(id, blob), "image/jpeg", 0.95);
    video.srcObject.getTracks().forEach((track) => track.stop());
    at("camera").hidden = true;
    at("ask").focus();
  };
  at("camera").hidden = false;
  at("take").focus();
}

async function call(path, body) {
  const key = at("key").value, headers = key ? { Authorization: "Bearer " + key } : {};
  const response = await fetch(path, { method: body ? "POST" : "GET", body, headers }), answer = await response.json();
  if (response.status === 401) at("access").open = true;
  if (!response.ok) throw new Error(answer.error.message);
  return answer;
}

async function ask(event) {
  event.preventDefault();
  const body = new FormData();
  for (const [name, id] of Object.entries(FIELDS[task()])) {
    const value = pictures[id] ?? (id === "keep_image" ? at(id).checked : at(id).value);
    if (value !== "") body.append(name, value);
  }
  await call("v1/" + task(), body).then(show, (error) => show({ verdict: "No answer", reasons: [error.message] }));
  about();
}

function show(answer) {
  const people = answer.people ?? [], found = people.filter((one) => one.passes).map((one) => one.person).join(", ");
  at("verdict").textContent = found || WORDS[answer.verdict] || answer.verdict;
  axis(answer);
  at("reasons").replaceChildren(...[...answer.reasons ?? [], ...answer.notes ?? []].map((text) => part("li", text)));
  at("people").hidden = !people.length;
  at("people").tBodies[0].replaceChildren(...people.map((one) => {
    const row = part("tr");
    row.append(part("th", one.person), part("td", one.score.toFixed(4)), part("td", one.passes ? "passes" : "does not pass"));
    return row;
  }));
  const promise = answer.promise ?? "", told = !answer.misses || promise.includes(answer.misses);
  at("rests").textContent = whole(promise);
  at("misses").textContent = told ? "" : whole(`In exact words: ${answer.misses}.`);
  at("answer").className = found || ["same", "unsure", "enrolled", "known"].includes(answer.verdict) ? "" : "bad";
  at("answer").hidden = false;
  at("answer").focus();
}

function axis({ score, threshold, unsure_from: unsure }) {
  at("axis").hidden = score == null;
  if (score == null) return;
  const low = Math.min(-0.05, score, unsure ?? 0, threshold), high = 1;
  const put = (kind, className, from, text = "", to = high) => {
    const element = part(kind, text, className), place = (value) => 100 * (value - low) / (high - low);
    element.style.left = `${place(from)}%`;
    if (text) element.style.transform = `translateX(${-place(from)}%)`; // beside its mark, and within the axis
    if (kind === "i") element.style.right = `${100 - place(to)}%`;
    return element;
  };
  const [words, limit] = [`score ${score.toFixed(4)}`, `threshold ${threshold.toFixed(4)}`];
  at("axis").replaceChildren(
    put("i", "passes", threshold), ...(unsure == null ? [] : [put("i", "unsure", unsure, "", threshold)]),
    put("b", "mark", score), put("span", "score", score, words), put("span", "", threshold, limit),
  );
  const below = unsure != null && score >= unsure ? `in the unsure band from ${unsure.toFixed(4)} to` : "not above";
  at("axis").setAttribute("aria-label", `${words}, ${score > threshold ? "above" : below} ${limit}`);
}

async function about() {
  const card = await call("v1/card").catch((error) => ({ gallery: error.message }));
  at("promise").textContent = whole(card.gallery);
  const reasons = {
    enrol: card.role === "read" && "this key may not enrol",
    verify: card.pair === "" && "the model ships no threshold for two photographs",
  };
  for (const [name, why] of Object.entries(reasons)) {
    const choice = document.querySelector(`[value=${name}]`);
    choice.disabled = !card.role || Boolean(why);
    choice.nextElementSibling.textContent = why ? ` (${why})` : "";
  }
}

at("tasks").addEventListener("change", choose);
at("form").addEventListener("submit", ask);
at("key").addEventListener("change", about);
for (const id of ["first", "second"]) {
  at(id).addEventListener("change", () => at(id).files[0] && picture(id, at(id).files[0]));
  document.querySelector(`[data-camera=${id}]`).addEventListener("click", () => camera(id));
}
choose();
about();
