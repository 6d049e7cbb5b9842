/** The field for a code of the second factor. */
import { Field } from "../ui/fields.tsx";

export const SecondFactorCode = ({
  label = "Code from the app, or a recovery code",
}: {
  label?: string | undefined;
}) => <Field label={label} name="code" autoComplete="one-time-code" required />;
