/** The smoke program for Vercel's edge runtime, whose host calls it by name. */
import { keepPromises } from "./promises.js";

Object.assign(globalThis, { keepPromises });
