import { randomUUID } from 'node:crypto';
import type { MaybePromise, MessageStore } from '../core/contracts/index.ts';
import { defineContract, type NamedHarness, withPair } from './contract/define-contract.ts';
import { agentCases } from './message-store-contract/agent-cases.ts';
import { contextCases } from './message-store-contract/context-cases.ts';
import { inputCases } from './message-store-contract/input-cases.ts';
import { listCases } from './message-store-contract/list-cases.ts';
import type { MessageStoreUnderTest } from './message-store-contract/message-case.ts';
import { metadataCases } from './message-store-contract/metadata-cases.ts';
import { openTurnCases } from './message-store-contract/open-turn-cases.ts';
import { turnCases } from './message-store-contract/turn-cases.ts';
import type { ContractRunner } from './store-contract.ts';

/** How the suite gets at the store that it examines. */
export interface MessageStoreContractHarness extends NamedHarness {
  /** Called before each case; the store has to be empty. */
  createStore(): MaybePromise<MessageStore>;
  /** A second instance over the same data, as another process has it. Default: the same instance. */
  createPeer?(store: MessageStore): MaybePromise<MessageStore>;
  /** Called after each case, for the peer before the store. */
  dispose?(store: MessageStore): MaybePromise<void>;
}

const groups = [turnCases, listCases, agentCases, openTurnCases, metadataCases, contextCases, inputCases];

/**
 * Defines the contract of `MessageStore` as tests of `runner`: what every store must do so that an agent neither forgets nor repeats a
 * turn. Each case gets its own, empty store. Titles are stable. Errors with `INVALID_CONFIG` where `deviations` names no case.
 */
export function messageStoreContract(harness: MessageStoreContractHarness, runner: ContractRunner): void {
  const examine = async (run: (subject: MessageStoreUnderTest) => Promise<void>): Promise<void> => {
    const newContextId = () => `context-${randomUUID()}`;
    await withPair(harness, await harness.createStore(), (pair) => run({ ...pair, newContextId }));
  };
  defineContract({ of: 'MessageStore', groups, examine }, harness, runner);
}
