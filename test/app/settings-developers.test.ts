/** Choices in the app's settings for developers. */
import { expect, test } from "bun:test";
import { eventChoices } from "../../src/app/pages/settings/settings-developers.ts";
import { EVENT_NAMES } from "../../src/events/kinds.ts";

test("an endpoint's form has every event, and keeps one that the page does not know", () => {
  expect<string[]>(eventChoices(["message.inbound"])).toEqual(EVENT_NAMES);
  expect(eventChoices(["message.later", "message.held"])).toEqual([...EVENT_NAMES, "message.later"]);
});
