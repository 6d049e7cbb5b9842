/** The settings pages, in one file for browsers: opening one loads all. */

export { AppPasswordsPage } from "./app-passwords-page.tsx";
export { DoctorPage } from "./doctor-page.tsx";
export { DomainsPage } from "./domains-page.tsx";
export { KeyPage, KeysPage } from "./keys-page.tsx";
export { MailboxPage } from "./mailbox-page.tsx";
export { MailboxesPage } from "./mailboxes-page.tsx";
export { NotificationsPage } from "./notifications-page.tsx";
export { OutboundPage } from "./outbound-page.tsx";
export { PeoplePage } from "./people-page.tsx";
export { ProfilePage } from "./profile-page.tsx";
export { RulesPage } from "./rules-page.tsx";
export { SecondFactorPage } from "./second-factor-page.tsx";
export { ServerPage } from "./server-page.tsx";
export { SessionsPage } from "./sessions-page.tsx";
export { SettingsLayout } from "./settings-layout.tsx";
export { WebhookPage, WebhooksPage } from "./webhooks-page.tsx";
export { WorkspacePage, WorkspacesPage } from "./workspaces-page.tsx";
export { WritingPage } from "./writing-page.tsx";
