// Begins and appends turns to one context until it is killed, and prints the number of each turn that was acknowledged.
import { writeSync } from 'node:fs';
import { StoreFactory } from 'millrace';
import { largeTurn } from '../large-turn.ts';

const [configuration = '{}', first = '0'] = process.argv.slice(2);
const store = StoreFactory.createMessageStore(JSON.parse(configuration));

for (let turn = Number(first); ; turn++) {
  await store.begin('c', `turn-${turn}`);
  await store.append('c', `turn-${turn}`, largeTurn(turn));
  writeSync(1, `${turn}\n`);
}
