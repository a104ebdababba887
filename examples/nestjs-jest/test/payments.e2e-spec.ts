import type { INestApplication } from "@nestjs/common";
import { Test } from "@nestjs/testing";
import request from "supertest";
import type { App } from "supertest/types";
import { AppModule } from "../src/app.module";
import { guard } from "../src/guard";
import { PaymentsService } from "../src/payments.service";

describe("POST /payments", () => {
  let app: INestApplication<App>;

  beforeAll(async () => {
    const module = await Test.createTestingModule({ imports: [AppModule] }).compile();
    app = module.createNestApplication();
    await app.init();
  });

  afterAll(async () => {
    await app.close();
    await guard.close();
  });

  const pay = (key: string, id: string) =>
    request(app.getHttpServer())
      .post("/payments")
      .set("Authorization", "Bearer alice-secret")
      .set("Idempotency-Key", key)
      .send({ id, amount: 4_200 });

  it("replays the response of a request that is sent again", async () => {
    const first = await pay("key-1", "order-3").expect(201);
    const again = await pay("key-1", "order-3").expect(201);
    expect(again.body).toEqual(first.body);
    expect(app.get(PaymentsService).charged).toHaveLength(1);
    await pay("key-1", "order-4").expect(422);
  });

  it("refuses a request without a key", async () => {
    await request(app.getHttpServer())
      .post("/payments")
      .set("Authorization", "Bearer alice-secret")
      .expect(400);
  });
});
