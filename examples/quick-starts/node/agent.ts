import { agent, tool } from 'millrace';
import { createProvider } from 'millrace/ai-sdk';
import { demoLLM } from 'millrace/testing';

/** Stands for your database. */
const orders = new Map([
  ['A-1', { status: 'shipped', cents: 900 }],
  ['A-2', { status: 'lost by the carrier', cents: 12_000 }],
]);

function orderOf(id: string) {
  const order = orders.get(id);
  // The model reads the error, and can correct itself.
  if (!order) throw new Error(`there is no order ${id}; there are ${[...orders.keys()].join(', ')}`);
  return order;
}

const parameters = {
  type: 'object',
  properties: { order_id: { type: 'string', description: 'For example A-1.' } },
  required: ['order_id'],
} as const;

const orderStatus = tool({
  name: 'order_status',
  description: 'Tells the status of an order.',
  parameters,
  readOnly: true,
  execute: ({ order_id: id }) => `Order ${id} is ${orderOf(id).status}.`,
});

const refundOrder = tool({
  name: 'refund_order',
  description: 'Refunds an order.',
  parameters,
  // The turn waits, for days if need be, until somebody says yes.
  needsApproval: true,
  execute({ order_id: id }) {
    const order = orderOf(id);
    order.status = 'refunded';
    return `Refunded ${order.cents} cents for order ${id}.`;
  },
});

// MODEL=anthropic:claude-sonnet-5 asks Anthropic, with the package @ai-sdk/anthropic and the key in ANTHROPIC_API_KEY. Without it a stand-in with fixed rules answers.
const model = process.env['MODEL'];

export default agent({
  id: 'support',
  provider: model ? await createProvider(model) : demoLLM({ delayMs: 40 }),
  systemPrompt: 'You work for the support desk of a shop. Be brief.',
  tools: [orderStatus, refundOrder],
});
