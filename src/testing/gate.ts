/** A point that a call waits at until a test lets it pass. */
export interface Gate {
  /** Resolves once somebody waits at the gate. */
  readonly reached: Promise<void>;
  /** Lets everybody pass, from now on too. */
  open(): void;
  /** Waits until the gate is open. */
  pass(): Promise<void>;
}

/** A closed gate. */
export function gate(): Gate {
  let open = (): void => undefined;
  let reach = (): void => undefined;
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  const reached = new Promise<void>((resolve) => {
    reach = resolve;
  });
  return {
    reached,
    open,
    pass: () => {
      reach();
      return opened;
    },
  };
}
