/** The settings pages, in one file for browsers: opening one loads all. */

export { AppPasswordsPage } from "./app-passwords.tsx";
export { DoctorPage } from "./doctor.tsx";
export { DomainsPage } from "./domains.tsx";
export { KeyPage, KeysPage } from "./keys.tsx";
export { SettingsLayout } from "./layout.tsx";
export { MailboxPage } from "./mailbox.tsx";
export { MailboxesPage } from "./mailboxes.tsx";
export { NotificationsPage } from "./notifications.tsx";
export { OutboundPage } from "./outbound.tsx";
export { PeoplePage } from "./people.tsx";
export { ProfilePage } from "./profile.tsx";
export { RulesPage } from "./rules.tsx";
export { SecondFactorPage } from "./second-factor.tsx";
export { ServerPage } from "./server.tsx";
export { SessionsPage } from "./sessions.tsx";
export { WebhookPage, WebhooksPage } from "./webhooks.tsx";
export { WorkspacePage, WorkspacesPage } from "./workspaces.tsx";
export { WritingPage } from "./writing.tsx";
