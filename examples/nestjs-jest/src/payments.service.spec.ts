import { Test } from "@nestjs/testing";
import { isNevertwiceError } from "nevertwice";
import { guard } from "./guard";
import { PaymentsService } from "./payments.service";

describe("PaymentsService", () => {
  let payments: PaymentsService;

  beforeEach(async () => {
    const module = await Test.createTestingModule({ providers: [PaymentsService] }).compile();
    payments = module.get(PaymentsService);
  });

  afterAll(() => guard.close());

  it("charges an order once", async () => {
    const order = { id: "order-1", amount: 4_200 };
    const receipts = await Promise.all(Array.from({ length: 5 }, () => payments.charge(order)));
    expect(new Set(receipts)).toEqual(new Set(["receipt-1"]));
    expect(payments.charged).toEqual([order]);
  });

  it("refuses another amount for the same order", async () => {
    await payments.charge({ id: "order-2", amount: 4_200 });
    const refused = await payments.charge({ id: "order-2", amount: 1 }).catch((error: unknown) => error);
    expect(isNevertwiceError(refused, "conflict")).toBe(true);
    expect(payments.charged).toHaveLength(1);
  });
});
