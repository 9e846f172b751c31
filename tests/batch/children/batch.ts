// Runs a batch of `count` prompts against a model server, in a process of its own, and sends the count of rows after each. `agent` of the store
// `kind` at `place`.
import { agent } from 'millrace';
import { runBatch } from 'millrace/batch';
import { LiteLLMProvider } from 'millrace/litellm';
import { openedStore } from '../opened-store.ts';

const [kind = '', place = '', baseUrl = '', out = '', count = ''] = process.argv.slice(2);
const { store, close } = openedStore(kind, place);
const clerk = agent({
  id: 'clerk',
  provider: new LiteLLMProvider({ baseUrl, model: 'demo' }),
  taskStateStore: store,
  leaseMs: 1_000,
  enableTracing: false,
});

function* prompts() {
  for (let index = 1; index <= Number(count); index++) yield { key: `k${index}`, prompt: `Say ${index}.` };
}

let rows = 0;
runBatch(prompts(), { agent: clerk, id: 'kill', out }).subscribe({
  next: ({ row, state, completed }) => {
    if (row) process.send?.({ rows: ++rows });
    if (state !== 'running') process.send?.({ state, completed });
  },
  error: (error: unknown) => process.send?.({ error: String(error) }),
  complete: () => void close().then(() => process.disconnect()),
});
