/** The only file that imports ical.js, which reads and writes iCalendar (RFC 5545). */
export { default } from "ical.js";
