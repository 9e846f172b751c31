import { agent } from 'millrace';
import { demoLLM } from 'millrace/testing';

const assistant = agent({ name: 'assistant', provider: demoLLM() }); // A model with fixed rules: no key needed.

const turn = assistant.startTurn('Hello! Who are you?');
for await (const text of turn.text()) process.stdout.write(text);
console.log();
