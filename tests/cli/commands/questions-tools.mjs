export default [
  {
    name: 'refund',
    description: 'Refunds an order.',
    parameters: {
      type: 'object',
      properties: { order: { type: 'integer' }, note: { type: 'string' } },
      required: ['order'],
    },
    needsApproval: true,
    execute: ({ order }) => `refunded ${order}`,
  },
  {
    name: 'book',
    description: 'Books a seat.',
    parameters: { type: 'object', properties: {} },
    execute(_, { ask }) {
      const seat = ask({ kind: 'input', prompt: 'Window or aisle?' });
      return `booked ${seat} with ${JSON.stringify(ask({ kind: 'auth', prompt: 'Which card?' }))}`;
    },
  },
];
