/** Notifications in this browser: its part of Web Push. */

/** Why this browser cannot be notified; undefined if it can. */
export function whyNoPush(): string | undefined {
  if (!window.isSecureContext) return "Notifications need https.";
  if (!("serviceWorker" in navigator && "PushManager" in window && "Notification" in window)) {
    return "This browser has no notifications. On an iPhone or iPad, add Mailroom to the home screen first.";
  }
  if (Notification.permission === "denied") {
    return "This browser refuses notifications of this site. Allow them in its settings for this site.";
  }
  return undefined;
}

export interface BrowserSubscription {
  endpoint: string;
  p256dh: string;
  auth: string;
}

/** Asks the person, then the browser. @throws Error in words for people */
export async function subscribeBrowser(publicKey: string): Promise<BrowserSubscription> {
  if ((await Notification.requestPermission()) !== "granted") throw new Error("You did not allow notifications.");
  const { pushManager } = await navigator.serviceWorker.ready;
  const key = Uint8Array.from(atob(publicKey.replaceAll("-", "+").replaceAll("_", "/")), (one) => one.charCodeAt(0));
  try {
    const given = await pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: key });
    const { endpoint = "", keys = {} } = given.toJSON();
    return { endpoint, p256dh: keys.p256dh ?? "", auth: keys.auth ?? "" };
  } catch {
    throw new Error("The browser could not reach its push service. Check your connection, then try again.");
  }
}

export async function unsubscribeBrowser(): Promise<void> {
  const registration = await navigator.serviceWorker.getRegistration();
  const present = await registration?.pushManager.getSubscription();
  await present?.unsubscribe();
}
