import { randomUUID } from 'node:crypto';
import type { ArtifactStore, MaybePromise } from '../core/contracts/index.ts';
import type { ArtifactStoreUnderTest } from './artifact-store-contract/artifact-case.ts';
import { artifactCases } from './artifact-store-contract/artifact-cases.ts';
import { draftCases } from './artifact-store-contract/draft-cases.ts';
import { artifactInputCases } from './artifact-store-contract/input-cases.ts';
import { artifactListCases } from './artifact-store-contract/list-cases.ts';
import { versionCases } from './artifact-store-contract/version-cases.ts';
import { defineContract, type NamedHarness, withPair } from './contract/define-contract.ts';
import type { ContractRunner } from './store-contract.ts';

/** How the suite gets at the store that it examines. */
export interface ArtifactStoreContractHarness extends NamedHarness {
  /** Called before each case; the store has to be empty, and keep at least 5 versions of an artifact. */
  createStore(): MaybePromise<ArtifactStore>;
  /** A second instance over the same data, as another process has it. Default: the same instance. */
  createPeer?(store: ArtifactStore): MaybePromise<ArtifactStore>;
  /** Called after each case, for the peer before the store. */
  dispose?(store: ArtifactStore): MaybePromise<void>;
  /** How large the largest content of the suite is, in bytes. Default 8 MiB. */
  readonly largeBytes?: number;
}

const groups = [artifactCases, versionCases, draftCases, artifactListCases, artifactInputCases];

/**
 * Defines the contract of `ArtifactStore` as tests of `runner`: contents come back byte for byte, whole, and in their versions. Each
 * case gets its own, empty store. Titles are stable. Errors with `INVALID_CONFIG` where `deviations` names no case.
 */
export function artifactStoreContract(harness: ArtifactStoreContractHarness, runner: ContractRunner): void {
  const { largeBytes = 8 * 1024 * 1024 } = harness;
  const examine = async (run: (subject: ArtifactStoreUnderTest) => Promise<void>): Promise<void> => {
    const newId = () => `id-${randomUUID()}`;
    await withPair(harness, await harness.createStore(), (pair) => run({ ...pair, newId, largeBytes }));
  };
  defineContract({ of: 'ArtifactStore', groups, examine }, harness, runner);
}
