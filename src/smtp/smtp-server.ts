/** smtp-server parses commands and DATA for our listeners. Only this file imports the package. */
export { SMTPServer, type SMTPServerOptions, type SMTPServerSession } from "smtp-server";
export { SMTPConnection } from "smtp-server/lib/smtp-connection.js";
