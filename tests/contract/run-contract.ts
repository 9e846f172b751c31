import { type ContractRunner, type StoreContractHarness, storeContract } from 'millrace/testing';

export interface ContractOutcome {
  readonly passed: readonly string[];
  /** By title: why. */
  readonly failed: ReadonlyMap<string, unknown>;
}

/** Runs the store contract by itself, without a test runner. */
export function runContract(harness: StoreContractHarness): Promise<ContractOutcome> {
  return runSuite((runner) => storeContract(harness, runner));
}

/** Runs any contract by itself. */
export async function runSuite(define: (runner: ContractRunner) => void): Promise<ContractOutcome> {
  const cases: { readonly title: string; readonly test: () => Promise<void> }[] = [];
  define({
    describe: (_, body) => body(),
    it: (title, test) => cases.push({ title, test }),
  });
  const passed: string[] = [];
  const failed = new Map<string, unknown>();
  for (const { title, test } of cases) {
    await test().then(
      () => passed.push(title),
      (error: unknown) => failed.set(title, error),
    );
  }
  return { passed, failed };
}
