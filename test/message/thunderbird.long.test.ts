/** No bounce reads worse than in Thunderbird. */
import { corpusFiles, corpusNote } from "../harness/mail/corpus.ts";
import { describeBeside } from "./beside-thunderbird.ts";

describeBeside({ [`sisimai${corpusNote}`]: corpusFiles("sisimai") });
