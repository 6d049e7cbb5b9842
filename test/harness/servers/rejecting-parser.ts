/** The parser, where each document leaves a rejection behind that nobody handles, as pdf.js does. */
import "../../../src/workers/document-jobs.ts";
import "../../../src/workers/parser.ts";
import { hearParent } from "../../../src/base/child-messages.ts";

hearParent(() => void Promise.reject(new Error("left behind")));
