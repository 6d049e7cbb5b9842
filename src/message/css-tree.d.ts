/** The part of css-tree that is used; it has no types of its own. */
declare module "css-tree/tokenizer" {
  /** Calls `onToken` with the type and the offsets of each token in order; `end` is exclusive. */
  export function tokenize(source: string, onToken: (type: number, start: number, end: number) => void): void;
  export const tokenTypes: Record<
    | "Ident"
    | "Function"
    | "AtKeyword"
    | "Hash"
    | "String"
    | "Number"
    | "Percentage"
    | "Dimension"
    | "WhiteSpace"
    | "Comment"
    | "CDO"
    | "CDC",
    number
  >;
}
