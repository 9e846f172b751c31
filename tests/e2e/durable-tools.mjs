import { appendFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

const parameters = { type: 'object', properties: { email: { type: 'string' } }, required: ['email'] };

/** Writes a line into the ledger that the environment names, and takes a minute in the first attempt where it is to be cut off. */
const worker = (name, { hangs = false, ...policy } = {}) => ({
  name,
  description: `Does ${name}.`,
  parameters,
  ...policy,
  async execute({ email }, { idempotencyKey, attempt, signal }) {
    appendFileSync(process.env.TEST_LEDGER, `${name} ${idempotencyKey} ${attempt}\n`);
    if (hangs && attempt === 1) await sleep(60_000, undefined, { signal });
    return `${name} ${email}`;
  },
});

export default [
  worker('quick'),
  worker('again', { hangs: true, idempotent: true, onInDoubt: 'retry' }),
  worker('reads', { hangs: true, readOnly: true, onInDoubt: 'retry' }),
  worker('once', { hangs: true }),
  worker('known', { hangs: true, onInDoubt: async (key) => ({ outcome: 'applied', content: `found ${key}` }) }),
  worker('doubtful', { hangs: true, onInDoubt: 'ask' }),
  worker('approved', { needsApproval: true }),
  worker('picky', { needsApproval: ({ email }) => email.endsWith('.org') }),
  worker('patient', { hangs: true, timeoutMs: 50 }),
];
