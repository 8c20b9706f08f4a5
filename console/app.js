// The console's frame: sign-in, navigation, and one page per address.

import { html, render, use, useState, Fail } from "./ui.js";
import { connected, route, signedIn, signIn, signOut, start, stays } from "./state.js";
import { MapPage } from "./pages/map.js";
import { GroupsPage } from "./pages/groups.js";
import { GroupPage } from "./pages/group.js";
import { HostsPage, SwitchesPage } from "./pages/nodes.js";

const PAGES = [["/map", "Map", MapPage], ["/groups", "Groups", GroupsPage], ["/hosts", "Hosts", HostsPage], ["/switches", "Switches", SwitchesPage]];

function SignIn() {
  const [error, setError] = useState(null);
  const submit = async (e) => {
    e.preventDefault();
    setError(null);
    try { await signIn(new FormData(e.target).get("token").trim()); } catch (problem) { setError(problem); }
  };
  return html`<main><form class="card" onSubmit=${submit}>
    <h1>Datacast</h1>
    <p>Sign in with a token. <code>datacast token create FILE</code> makes one; a lab's lies in <code>/run/datacast/lab/token</code>.</p>
    <div class="row"><label>Token <input name="token" type="password" autocomplete="current-password" required size="40" /></label>
    <button class="main">Sign in</button></div><${Fail} error=${error} /></form></main>`;
}

function App() {
  const [signed, here, live, why] = [use(signedIn), use(route), use(connected), use(stays)];
  if (signed === null) return html`<p class="center">Loading …</p>`;
  if (!signed) return html`<${SignIn} />`;
  const group = here.match(/^\/groups\/([^/?]+)/);
  const page = PAGES.find(([path]) => here.split("?")[0] === path);
  const [, title, Page] = group ? [null, `Group ${group[1]}`, GroupPage] : page ?? PAGES[0];
  document.title = `${title} – Datacast`;
  return html`<header><h1>Datacast</h1>
      <nav aria-label="Pages">${PAGES.map(([path, text]) => html`<a href=${`#${path}`} aria-current=${here.startsWith(path) ? "page" : undefined}>${text}</a>`)}
        <a href="docs">API</a></nav>
      <button onClick=${signOut}>Sign out</button></header>
    <${Fail} error=${why} />
    ${live ? "" : html`<div class="banner" role="status">No connection to the controller. What you see may be old; trying again.</div>`}
    <main><${Page} key=${here.split("?")[0]} id=${group && decodeURIComponent(group[1])} /></main>`;
}

const root = document.getElementById("app");
root.textContent = "";
render(html`<${App} />`, root);
start();
