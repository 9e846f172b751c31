// Tools for the chat page of `npx millrace serve --tools examples/served-tools.mjs`: one that takes its time, one that has to be approved, one that asks.
import { setTimeout as pause } from 'node:timers/promises';

const text = (description) => ({ type: 'string', description });

export default [
  {
    name: 'weather',
    description: 'Tells the weather in a city.',
    parameters: { type: 'object', properties: { city: text('The city.') }, required: ['city'] },
    readOnly: true,
    onInDoubt: 'retry',
    async execute({ city }, { signal }) {
      await pause(1_500, undefined, { signal });
      return `In ${city} it is 4 °C with light rain.`;
    },
  },
  {
    name: 'refund_order',
    description: 'Refunds an order.',
    parameters: {
      type: 'object',
      properties: { order: { type: 'integer', description: 'The number of the order.' } },
      required: ['order'],
    },
    needsApproval: true,
    execute: ({ order }) => `Order ${order} is refunded.`,
  },
  {
    name: 'book_seat',
    description: 'Books a seat on a train.',
    parameters: { type: 'object' },
    execute(_args, { ask }) {
      const city = ask({ prompt: 'Where do you want to go?' });
      const seat = ask({ prompt: 'Window or aisle?', data: { choices: ['window', 'aisle'] } });
      return `A seat at the ${seat} is booked to ${city}.`;
    },
  },
];
