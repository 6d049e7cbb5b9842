/** The door to smtp-server, which parses commands and DATA for our listeners. */
export { SMTPServer, type SMTPServerOptions, type SMTPServerSession } from "smtp-server";
export { SMTPConnection } from "smtp-server/lib/smtp-connection.js";
