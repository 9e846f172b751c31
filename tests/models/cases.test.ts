import { readdirSync, readFileSync } from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { openResources, type ResourceLedger } from 'millrace/testing';
import { differences } from './differences.ts';
import type { ModelCase, Player, ProviderSpec } from './model-case.ts';
import { playCase } from './play-case.ts';

const folder = new URL('../fixtures/models/', import.meta.url);
const files = readdirSync(folder).filter((name) => name.endsWith('.json'));

let ledger: ResourceLedger;

beforeEach(() => {
  ledger = openResources();
});

afterEach(() => ledger.assertNone());

describe.each(files)('%s', (file) => {
  const cases: readonly ModelCase[] = JSON.parse(readFileSync(new URL(file, folder), 'utf8'));
  for (const one of cases)
    for (const player of one.provider)
      it(`M-02 ${one.id} [${nameOf(player)}] ${one.what}`, async () => {
        expect(differences(one.expect, await playCase(one, player))).toEqual([]);
      });
});

function nameOf(player: Player): string {
  if ('cli' in player) return 'millrace run';
  if ('function' in player) return player.function;
  if ('fallback' in player) return player.fallback.map(nameOfProvider).join(', else ');
  return ('inTurns' in player ? player.inTurns : [player]).map(nameOfProvider).join(', then ');
}

function nameOfProvider(spec: ProviderSpec): string {
  if (spec.use === 'createProvider') return spec.model;
  return spec.use === 'LiteLLMProvider' ? `${spec.use} ${spec.options.model}` : `${spec.use} ${spec.sdkModel.model}`;
}
