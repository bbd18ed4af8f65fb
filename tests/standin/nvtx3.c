/* Uses NVTX 3 by NVIDIA's own headers, each function that has a text or an end, with what tests/tests/nvtx3.rs knows. */
#include <nvtx3/nvToolsExt.h>

#include <unistd.h>

int main(void) {
    nvtxDomainHandle_t one = nvtxDomainCreateA("one"), two = nvtxDomainCreateW(L"two");
    nvtxEventAttributes_t event = {.version = NVTX_VERSION, .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE};

    nvtxRangePushA("plain");
    nvtxRangePushW(L"w\u00efde");
    event.messageType = NVTX_MESSAGE_TYPE_ASCII;
    event.message.ascii = "in a structure";
    nvtxRangePushEx(&event);
    usleep(2000);
    /* Domains nest by themselves. */
    char text[] = "registered";
    event.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
    event.message.registered = nvtxDomainRegisterStringA(one, text);
    text[0] = 'X'; /* what was registered stays */
    nvtxDomainRangePushEx(one, &event);
    event.message.registered = nvtxDomainRegisterStringW(two, L"registered \U0001F680");
    nvtxDomainRangePushEx(two, &event);
    nvtxDomainRangePop(one);
    nvtxRangePop();
    nvtxRangePop();
    nvtxDomainRangePop(two);
    nvtxRangePop();

    event.messageType = NVTX_MESSAGE_TYPE_UNICODE;
    event.message.unicode = L"started \u00fc";
    nvtxRangeId_t a = nvtxRangeStartA("started"), b = nvtxRangeStartEx(&event), c = nvtxRangeStartW(L"w"),
                  d = nvtxDomainRangeStartEx(one, &event);
    nvtxRangeEnd(a);
    nvtxDomainRangeEnd(one, d);
    nvtxRangeEnd(c);
    nvtxRangeEnd(b);

    nvtxMarkA("mark");
    nvtxMarkW(L"wide mark");
    nvtxMarkEx(&event);
    nvtxDomainMarkEx(two, &event);
    event.messageType = NVTX_MESSAGE_UNKNOWN;
    nvtxMarkEx(&event); /* has no text */
    /* Longer than a recording keeps, with a letter of two bytes across the cut. */
    nvtxMarkW(L"0123456789012345678901234567890123456789012345678901234567890123456789"
              L"01234567890123456789012345678901234567890123456789012345\u00fc");
    return 0;
}
