/** A choice of several values by checkboxes. All are ticked at first, unless `chosen` is given. */
import { useRefusal } from "./form.tsx";

export function ChoiceBoxes({
  legend,
  name,
  choices,
  chosen = choices,
  meaning = {},
}: {
  legend: string;
  name: string;
  choices: readonly string[];
  chosen?: readonly string[];
  /** Explanations of choices. */
  meaning?: Readonly<Record<string, string>>;
}) {
  const refusal = useRefusal(name);
  return (
    <fieldset>
      <legend className="field-label">{legend}</legend>
      <div className="grid gap-1.5">
        {choices.map((choice) => (
          <label key={choice} className="flex items-start gap-2 text-sm max-md:min-h-8">
            <input
              type="checkbox"
              name={name}
              value={choice}
              defaultChecked={chosen.includes(choice)}
              className="mt-0.5 size-4 shrink-0 accent-accent"
            />
            <span>
              {choice}
              {meaning[choice] !== undefined && <span className="block text-xs text-muted">{meaning[choice]}</span>}
            </span>
          </label>
        ))}
      </div>
      {refusal !== undefined && (
        <p role="alert" className="mt-1 text-sm text-danger">
          {refusal}
        </p>
      )}
    </fieldset>
  );
}
