import { type StoreContractHarness, storeContract } from '../../src/testing/store-contract.ts';

export interface ContractOutcome {
  readonly passed: readonly string[];
  /** By title: why. */
  readonly failed: ReadonlyMap<string, unknown>;
}

/** Runs the store contract by itself, without a test runner. */
export async function runContract(harness: StoreContractHarness): Promise<ContractOutcome> {
  const cases: { readonly title: string; readonly test: () => Promise<void> }[] = [];
  storeContract(harness, {
    describe: (_, define) => define(),
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
