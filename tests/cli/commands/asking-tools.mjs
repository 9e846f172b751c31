export default [
  {
    name: 'add',
    description: 'Adds two numbers, if somebody says so',
    parameters: { type: 'object', properties: { a: { type: 'number' }, b: { type: 'number' } }, required: ['a', 'b'] },
    needsApproval: true,
    execute: ({ a, b }) => a + b,
  },
];
