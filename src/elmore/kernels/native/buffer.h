// Memory for the numbers between input and output. Included inside a namespace.

// Asking the system for megabytes at every call, and touching them for the first time, would cost as much as a step of
// a small layer; so threads keep their buffers from call to call, and a buffer only ever grows.
template <class T>
class Buffer {
   public:
    Buffer() = default;
    Buffer(const Buffer &) = delete;
    Buffer &operator=(const Buffer &) = delete;
    ~Buffer() { std::free(data_); }

    // Room for so many, at the start of a cache line; what was in it may be lost. False where memory ran out.
    bool reserve(int64_t count) {
        if (count <= size_) return true;
        std::free(data_);
        size_ = 0;
        const size_t bytes = (static_cast<size_t>(count) * sizeof(T) + LINE - 1) / LINE * LINE;
        data_ = static_cast<T *>(std::aligned_alloc(LINE, bytes));
        if (data_ == nullptr) return false;
        size_ = count;
        return true;
    }

    T *data() const { return data_; }

   private:
    static constexpr size_t LINE = 64;
    T *data_ = nullptr;
    int64_t size_ = 0;
};
