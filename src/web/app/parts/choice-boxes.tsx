/** Several of a few words, as boxes to tick; all are ticked at first. */
export function ChoiceBoxes({ legend, name, choices }: { legend: string; name: string; choices: readonly string[] }) {
  return (
    <fieldset>
      <legend className="mb-1 text-sm text-soft">{legend}</legend>
      <div className="flex flex-wrap gap-x-5 gap-y-1.5">
        {choices.map((choice) => (
          <label key={choice} className="flex items-center gap-2 text-sm max-md:min-h-8">
            <input type="checkbox" name={name} value={choice} defaultChecked className="size-4 accent-accent" />
            {choice}
          </label>
        ))}
      </div>
    </fieldset>
  );
}
