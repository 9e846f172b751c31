/** A sentence of the specification that says MUST, and what shows that it holds. */
export interface Rule {
  /** The version of A2A and the section, e.g. `1.0 §3.1.2`. */
  readonly where: string;
  readonly must: string;
  readonly check: () => Promise<void>;
}
