// The login: a form over the page once the server asks for one. The session is in a cookie that no
// script can read.

import { byId } from "./dom.js";

const dialog = byId("login");

/// Shows the form. After a login the page starts anew: its address reproduces the view.
export function askLogin() {
  if (dialog.open) return;
  dialog.showModal();
  byId("login-user").focus();
}

/// Shows the button that ends the session, where there is one.
export async function showAccount() {
  const response = await fetch("/api/v1/session", { cache: "no-store" });
  const { account, login } = await response.json();
  const button = byId("logout");
  button.hidden = !login || !account;
  button.title = account ? `logged in as ${account.name}` : "";
}

dialog.addEventListener("cancel", (event) => event.preventDefault());

byId("login-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const said = byId("login-said");
  said.textContent = "";
  const [user, password] = [byId("login-user").value, byId("login-password").value];
  try {
    const response = await fetch("/api/v1/login", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ user, password }),
    });
    if (response.ok) return location.reload();
    const body = await response.json();
    said.textContent = body.error?.message ?? `the server answered ${response.status}`;
  } catch {
    said.textContent = "the server cannot be reached";
  }
  byId("login-password").value = "";
  return byId("login-password").focus();
});

byId("logout").addEventListener("click", async () => {
  await fetch("/api/v1/logout", { method: "POST" });
  location.reload();
});
