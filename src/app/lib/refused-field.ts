/** Which field of a form a refusal is about. Refusals are words for people: they name the field, or quote what stands in it. */

/** `given`: names of the fields with what was sent. Undefined when the words are about none, or all, of them. */
export function refusedField(
  message: string,
  given: Iterable<readonly [name: string, value: string]>,
): string | undefined {
  const fields = [...given];
  const words = message.toLowerCase();
  const quoted = fields.find(([, value]) => value.trim().length > 2 && words.includes(value.trim().toLowerCase()));
  const named = fields.find(([name]) => new RegExp(`\\b${name.toLowerCase()}\\b`).test(words));
  const [field] = quoted ?? named ?? (fields.length === 1 ? fields : []).at(0) ?? [];
  return field;
}
