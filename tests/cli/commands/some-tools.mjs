export default [
  {
    name: 'add',
    description: 'Adds two numbers',
    parameters: { type: 'object', properties: { a: { type: 'number' }, b: { type: 'number' } }, required: ['a', 'b'] },
    execute: ({ a, b }) => a + b,
  },
  {
    name: 'stubborn',
    description: 'Never answers, and ignores its signal',
    parameters: { type: 'object' },
    execute: () => new Promise((resolve) => setTimeout(resolve, 60_000)),
  },
];
