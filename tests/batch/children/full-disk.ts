// A batch that writes its results to the first argument. Prints the code of the error that it ends with, and that of its cause.
import { agent } from 'millrace';
import { runBatch } from 'millrace/batch';
import { lastValueFrom } from 'rxjs';

const [out = ''] = process.argv.slice(2);
const provider = { call: async () => ({ message: { role: 'assistant' as const, content: 'said' } }) };
const ended = lastValueFrom(runBatch(['x'], { agent: agent({ id: 'echo', provider }), out }));
console.log(
  await ended.then(
    ({ state }) => state,
    ({ code, cause }: { readonly code: string; readonly cause: { readonly code: string } }) => `${code} ${cause.code}`,
  ),
);
