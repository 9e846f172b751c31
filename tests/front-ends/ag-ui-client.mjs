// The client of AG-UI in a process of its own: node ag-ui-client.mjs <address> <what the user says> [approve|reject|abort]. Prints what it has in the end.
import { HttpAgent } from '@ag-ui/client';

const [address, text, decision = ''] = process.argv.slice(2);
const agent = new HttpAgent({ url: `${address}/api/ag-ui`, threadId: `thread-${text}-${decision}` });
const types = [];
const outcomes = [];
const errors = [];
const run = async (input) => {
  try {
    await agent.runAgent(input, {
      onEvent: ({ event }) => {
        types.push(event.type);
        if (event.type === 'RUN_FINISHED') outcomes.push(event.outcome?.type);
        if (event.type === 'TEXT_MESSAGE_CONTENT' && decision === 'abort') agent.abortRun();
      },
      onRunErrorEvent: ({ event }) => void errors.push(event.code),
      onRunFailed: ({ error }) => void errors.push(error.message),
    });
  } catch (error) {
    errors.push(error.message);
  }
};
agent.addMessage({ id: crypto.randomUUID(), role: 'user', content: text });
await run({});
const interrupts = agent.pendingInterrupts ?? [];
if (interrupts.length > 0) {
  const [{ id: interruptId }] = interrupts;
  const answer = decision === 'approve' ? { status: 'resolved', payload: { approved: true } } : { status: 'cancelled' };
  await run({ resume: [{ interruptId, ...answer }] });
}
console.log(JSON.stringify({ messages: agent.messages, types, outcomes, errors, interrupts }));
process.exit(0);
