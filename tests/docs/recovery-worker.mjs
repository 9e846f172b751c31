import { appendFileSync } from 'node:fs';

// One of several processes that resume what others left; its model notes each turn that it is asked about.
const { resumeAbandoned } = await import(new URL('example.mjs', import.meta.url).href);
const ledger = process.argv[2];

process.send('ready');
process.once('message', async () => {
  await resumeAbandoned({
    agentId: 'recovery',
    llmProvider: {
      call: async ({ messages }) => {
        appendFileSync(ledger, `${messages[0].content}\n`);
        return { message: { role: 'assistant', content: 'Done.' }, finishReason: 'stop' };
      },
    },
  });
  process.disconnect();
});
